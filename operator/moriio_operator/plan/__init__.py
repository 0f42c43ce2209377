"""What should be, from what is desired and observed. Pure: no clock, no network, no state."""
