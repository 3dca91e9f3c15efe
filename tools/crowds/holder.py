"""An upstream in a process of its own that answers each connection once and holds it open."""

import socket
import sys

BACKLOG = 4_096
READ_BYTES = 4_096
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def main() -> None:
    """Tell the port, then answer until the process is ended."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            connection.recv(READ_BYTES)
            connection.sendall(ANSWER)
            held.append(connection)


if __name__ == "__main__":
    main()
