"""`python -m app` is `chat-proxy`."""

from app.cli import main

if __name__ == "__main__":
    main()
