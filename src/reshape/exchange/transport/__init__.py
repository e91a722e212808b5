"""Connections between tasks and driver: plain TCP with Arrow's IPC messages in frames, TLS where it is asked for.

Arrow Flight was here before. It takes in a whole message before the caller's headers can be looked at, and has no limit
for it: a caller without the secret could make a listener use any amount of memory. It has no call that ends the calls
under way; a Python process that ends meanwhile hangs or aborts in one of Flight's threads, which print lines of their
own. And it takes twice the CPU time for a byte, four times for a call. ZeroMQ lies between the two in speed, but it too
reads messages by itself, has queues of its own in the place of TCP's back pressure, and does not tell a sender that its
receiver is gone.

A connection begins with proofs from both sides (``handshake.py``); only then is a frame read (``frames.py``). After
that it serves one request after the other: a call, a note, or a stream of rows. A waiting request or an open stream
holds a thread of the listener, a connection that only stands does not.
"""
