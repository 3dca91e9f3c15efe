"""`python -m chat_proxy` is `chat-proxy`."""

from chat_proxy.cli.main import main

if __name__ == "__main__":
    main()
