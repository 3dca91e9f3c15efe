"""Send each line of the standard input, a JSON list of messages, as one chat request.

One connection serves all of them, and each request is one packet, as most clients send it. A line
is printed for each answer.
"""

import json
import socket
import sys


def main() -> None:
    """Send requests until the input ends."""
    host, port = sys.argv[1].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        answers = connection.makefile("rb")
        for line in sys.stdin:
            body = json.dumps({"model": "demo", "messages": json.loads(line)}).encode()
            head = (
                f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode() + body)
            status = answers.readline().split()[1].decode()
            length = 0
            while header := answers.readline().strip():
                name, _, value = header.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            answers.read(length)
            print(status, flush=True)


if __name__ == "__main__":
    main()
