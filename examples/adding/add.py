"""Adding tasks from Python. `schedule_task` finds the server in ./scheduld.toml."""

from datetime import timedelta

from scheduld import Client, TaskExists, schedule_task

task = schedule_task("hello", {"message": "now"})
print(task.ref, task.due)

schedule_task("hello", {"message": "soon"}, delay="500ms")
schedule_task("hello", {"message": "in a while"}, delay=timedelta(minutes=5))
schedule_task("hello", {"message": "merry"}, at="2100-12-24 09:00")  # in the config's timezone

# An id of your own makes an add safe to repeat.
schedule_task("hello", {"message": "once"}, id="welcome-42", on_conflict="keep")
try:
    schedule_task("hello", {"message": "twice"}, id="welcome-42")
except TaskExists as error:
    print("refused:", error)

# Many tasks, or many calls: keep a client. AsyncClient has the same verbs for asyncio.
with Client() as client:
    added = client.schedule_many("hello", [{"message": f"number {n}"} for n in range(100)])
    print(len(added), "added,", client.stats("hello")[0].scheduled, "scheduled")
