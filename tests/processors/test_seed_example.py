"""The example of the processors' reference runs as it is printed there."""

import subprocess
import sys


def test_the_example_runs_as_printed():
    command = [sys.executable, "-m", "examples.seed_pipeline"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    needs_summary, candidates, truncated = ran.stdout.splitlines()
    assert needs_summary == "True"
    assert candidates == "1"
    assert 50 <= int(truncated) < 200
