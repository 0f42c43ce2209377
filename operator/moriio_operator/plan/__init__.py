"""What should be, from what is wished and observed. Pure: no clock, no network, no state."""
