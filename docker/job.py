"""What spark-submit is given in the jobs' image: our command, with its arguments."""

import sys

from exporter.cli import main

sys.exit(main())
