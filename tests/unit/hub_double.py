"""A test double of the Hugging Face hub: the part of its API that fetching uses, over HTTP on this machine."""

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from huggingface_hub import close_session

LARGE = (".safetensors", ".bin", ".zip")  # kept in LFS: named by sha256


@dataclass
class Repo:
    """A repository. `commits` are its contents by commit; `refs` are branches and tags."""

    kind: str = "model"
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    refusal: tuple[int, str | None] | None = None  # status and X-Error-Code of every download and look-up

    def push(self, files: dict[str, bytes], branch: str = "main") -> str:
        """A commit with these files; its 40 digits."""
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[commit] = files
        self.refs[branch] = commit
        return commit


class HubDouble:
    """The server: `repos` by kind and name. What was asked for is in `log`; faults can be set."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.log: list[str] = []  # method and path of every request
        self.ranges: list[str] = []  # Range headers
        self.break_after: dict[str, list[int]] = {}  # file -> bytes after which each next transfer breaks
        self.statuses: list[int] = []  # answers to the next requests in place of the right ones
        self.corrupt: set[str] = set()  # files of which another content is sent
        double = self

        class Handler(_Handler):
            hub = double

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True, kwargs={"poll_interval": 0.02}).start()

    def close(self) -> None:
        """Stop serving, and forget connections that are open still."""
        self._server.shutdown()
        self._server.server_close()
        close_session()

    def downloads(self) -> list[str]:
        """The files that were sent, in part or whole."""
        return sorted({line.rsplit("/", 1)[1] for line in self.log if line.startswith("GET") and "/resolve/" in line})


class _Handler(BaseHTTPRequestHandler):
    hub: HubDouble
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.log.append(f"{self.command} {path}")
        if self.hub.statuses:
            return self._send(self.hub.statuses.pop(0), b"")
        api = re.fullmatch(r"/api/(model|dataset)s/([^/]+/[^/]+)/(revision|tree)/(.+)", path)
        resolve = re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        kind, name = (api[1], api[2]) if api else ("dataset" if resolve[1] else "model", resolve[2])
        repo = self.hub.repos.get(name)
        if repo is None or repo.kind != kind:
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
        if repo.refusal:
            status, code = repo.refusal
            return self._send(status, b"", {"X-Error-Code": code} if code else {})
        asked = api[4] if api else resolve[3]
        commit = repo.refs.get(asked, asked)
        if commit not in repo.commits:
            return self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        if api and api[3] == "revision":
            return self._send_json({"id": name, "sha": commit, "siblings": [], "tags": []})
        if api:
            return self._send_json([_entry(path, content) for path, content in repo.commits[commit].items()])
        return self._send_file(resolve[4], repo.commits[commit][resolve[4]], commit, body)

    def _send_file(self, name: str, content: bytes, commit: str, body: bool) -> None:
        entry = _entry(name, content)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{entry.get("lfs", entry)["oid"]}"', "Accept-Ranges": "bytes"}
        sent, status = content, 200
        if name in self.hub.corrupt:
            sent = bytes(byte ^ 1 for byte in content)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked:
            self.hub.ranges.append(asked[0])
            headers["Content-Range"] = f"bytes {asked[1]}-{len(content) - 1}/{len(content)}"
            sent, status = sent[int(asked[1]) :], 206
        breaks = self.hub.break_after.get(name) if body else None
        self._send(status, sent, headers, body, breaks.pop(0) if breaks else None)

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers=None, body: bool = True, cut: int | None = None) -> None:
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if body and self.command == "GET":
            self.wfile.write(content if cut is None else content[:cut])
        if cut is not None:
            self.close_connection = True


def _entry(name: str, content: bytes) -> dict:
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"type": "file", "path": name, "size": len(content), "oid": git}
    if name.endswith(LARGE):
        entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return entry
