"""A mail server that prints what it gets, and delivers nothing: python smtp_printer.py [PORT]"""

import asyncio
import sys


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def say(line: str) -> None:
        writer.write(f"{line}\r\n".encode())
        await writer.drain()

    await say("220 printer")
    while command := (await reader.readline()).decode(errors="replace").strip():
        verb = command[:4].upper()
        if verb == "DATA":
            await say("354 end with a dot")
            mail = await reader.readuntil(b"\r\n.\r\n")
            print(mail.decode(errors="replace").replace("\r\n", "\n"), flush=True)
        await say("221 bye" if verb == "QUIT" else "250 ok")
        if verb == "QUIT":
            break
    writer.close()


async def main(port: int) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print(f"listening on port {port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1025))
