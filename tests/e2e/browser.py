"""A Chromium that is told what to do, over a pair of pipes: no driver and no library is needed."""

import fcntl
import json
import os
import shutil
import subprocess
import time

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# It reads from the first and writes to the second, whatever they were before.
READS, WRITES = 3, 4


class Page:
    """One page at `url`, until the end of the `with`."""

    def __init__(self, url, profile, size="1200,900"):
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--window-size={size}"]
        theirs_in, self.write_end = os.pipe()
        self.read_end, theirs_out = os.pipe()
        # Not in the way of the numbers that they get, nor of what else is open here.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, WRITES + 1) for end in (theirs_in, theirs_out)]

        def arrange():
            for given, wanted in zip(high, (READS, WRITES)):
                os.dup2(given, wanted)

        self.process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=arrange, close_fds=False,
        )
        for end in (theirs_in, theirs_out, *high):
            os.close(end)
        self.rest, self.number, self.session = b"", 0, None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.call("Page.navigate", url=url)
        self.until("location.href != 'about:blank' && document.readyState == 'complete'")

    def call(self, method, **arguments):
        self.number += 1
        message = {"id": self.number, "method": method, "params": arguments}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def next(self):
        while b"\0" not in self.rest:
            more = os.read(self.read_end, 1 << 16)
            assert more, "the browser has ended"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def run(self, script):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def until(self, script, timeout=20):
        """Waits for an expression to be true."""
        end = time.monotonic() + timeout
        while not self.run(f"!!({script})"):
            assert time.monotonic() < end, f"{script}: never; {self.text('body')[:2000]}"
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
