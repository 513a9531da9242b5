# This program is a loop without MCP. Its arguments are a program that reads a conversation and
# prints the model's answer; warmbox filter runs the commands of the answer.
#
#     python3 doc/examples/loop.py my-model < question
import subprocess
import sys


def run(text, *command):
    return subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, check=True).stdout


conversation = sys.stdin.read()
for turn in range(20):
    answer = run(conversation, *sys.argv[1:])
    results = run(answer, "warmbox", "filter", "--guide", "--text-only")
    conversation += answer + results
    if not results:  # no tag is left
        break
print(conversation, end="")
