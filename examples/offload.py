"""Large payloads outside of the store: in files, and in a bucket like those of S3."""

import asyncio
import http.client
import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from headrace import Headrace, Offload


class Files:
    """A file for each payload, in a directory that all machines see."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def put(self, key: str, data: bytes) -> None:
        # Whole or not at all: a worker must not read half of it.
        part = self.directory / f"{key}.part"
        part.write_bytes(data)
        part.rename(self._path(key))

    def get(self, key: str) -> bytes:
        return self._path(key).read_bytes()

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        # A UUID: Headrace asks for no key that it did not give.
        return self.directory / key


class Bucket:
    """Objects over HTTP, as S3 has them. With boto3 the three are put_object(Bucket=, Key=, Body=),
    get_object(Bucket=, Key=)["Body"].read() and delete_object(Bucket=, Key=)."""

    def __init__(self, host: str) -> None:
        self.host = host

    def put(self, key: str, data: bytes) -> None:
        self._ask("PUT", key, data)

    def get(self, key: str) -> bytes:
        return self._ask("GET", key)

    def delete(self, key: str) -> None:
        self._ask("DELETE", key)

    def _ask(self, method: str, key: str, data: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            connection.request(method, f"/payloads/{key}", data)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status >= 300:
                raise ConnectionError(f"{method} {key}: {answer.status} {answer.reason}")
            return body
        finally:
            connection.close()


class BucketServer(ThreadingHTTPServer):
    """In place of S3: keeps objects in memory."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.objects: dict[str, bytes] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Requests(BaseHTTPRequestHandler):
    server: BucketServer

    def do_PUT(self) -> None:
        size = int(self.headers["Content-Length"])
        self.server.objects[self.path] = self.rfile.read(size)
        self._answer(200)

    def do_GET(self) -> None:
        data = self.server.objects.get(self.path)
        self._answer(404) if data is None else self._answer(200, data)

    def do_DELETE(self) -> None:
        self.server.objects.pop(self.path, None)
        self._answer(204)

    def _answer(self, status: int, data: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


directory = tempfile.TemporaryDirectory()
files = Files(directory.name)
server = BucketServer()
bucket = Bucket(server.host)

app = Headrace(
    os.environ.get("HEADRACE_URL") or "memory://",
    namespace="example-offload",
    offload=Offload(files.put, files.get, files.delete, threshold=100_000),
)


@app.task
async def count(text: str) -> int:
    return len(text.split())


@app.task(offload=Offload(bucket.put, bucket.get, bucket.delete, threshold=100_000))
async def measure(image: bytes) -> int:
    return len(image)


async def main() -> None:
    async with app:
        words = await count.enqueue("word " * 50_000)
        image = await measure.enqueue(bytes(8_000_000))
        print("files:", len(list(files.directory.iterdir())), "objects:", len(server.objects))
        print("the store has a reference:", (await app.admin.job(image.id)).arguments["bytes"])
        async with app.worker():
            print("words:", await words.result(timeout=30))
            print("bytes:", await image.result(timeout=30))
        print("files:", len(list(files.directory.iterdir())), "objects:", len(server.objects))
    server.shutdown()
    directory.cleanup()


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# files: 1 objects: 1
# the store has a reference: 8000012
# words: 50000
# bytes: 8000000
# files: 0 objects: 0
