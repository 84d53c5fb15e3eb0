"""python -m kvassay.conformance.doors.cli"""

from kvassay.conformance.doors.cli import main

if __name__ == "__main__":
    main()
