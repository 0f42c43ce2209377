"""The loop: a key comes off the queue, the world is read, a plan is made, applied and reported."""
