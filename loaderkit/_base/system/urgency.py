"""Whose reads come first where many wait for a server: those of the records that are needed first."""

import threading


class Urgency(threading.local):
    """Of this thread. number: the least is served first; 0 where a caller waits for what it reads."""

    number = 0


urgency = Urgency()
