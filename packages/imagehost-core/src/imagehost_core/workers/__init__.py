"""A pool of sandboxed worker processes for image work: tasks, deadlines, a queue of two lanes, memory."""
