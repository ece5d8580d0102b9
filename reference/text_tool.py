"""Talks to the program text_tool (tests/tools/text_tool.cc): one JSON object a line in, one a line out."""
import json
import subprocess
import threading


class TextTool:
    def __init__(self, program, folder=None):
        self.process = subprocess.Popen([program] + ([folder] if folder else []), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, questions):
        """The answers to a list of questions, in order."""
        def write():
            for question in questions:
                self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()

        writer = threading.Thread(target=write)
        writer.start()
        answers = []
        for question in questions:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"text_tool stopped at {question!r}")
            answers.append(json.loads(line))
        writer.join()
        return answers

    def close(self):
        self.process.stdin.close()
        self.process.wait()
