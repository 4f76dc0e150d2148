"""A proxy for one server's port that delays what clients send: to catch a program half-way."""

import socket
import threading
import time


class Tap:
    """Passes bytes on; each read of a client's bytes waits `delay_s`, which may be changed meanwhile."""

    def __init__(self, port, delay_s=0.0):
        self.port, self.delay_s = port, delay_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            for source, sink, delayed in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=(source, sink, delayed), daemon=True).start()

    def _pass(self, source, sink, delayed):
        try:
            while piece := source.recv(1 << 16):
                if delayed:
                    time.sleep(self.delay_s)
                sink.sendall(piece)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        # A listener that others still wait on isn't closed by close alone.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
