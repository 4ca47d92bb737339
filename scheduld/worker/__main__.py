"""Where a worker process begins: started as a file, so that no folder shadows a module."""

import sys
from os.path import dirname

if __name__ == "__main__":
    # Only to find this package: the daemon tells its own path in its first message.
    sys.path.append(dirname(dirname(dirname(__file__))))
    from scheduld.worker.keeper import main

    sys.exit(main(int(sys.argv[2]), int(sys.argv[3])))
