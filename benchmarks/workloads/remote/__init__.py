"""Workers on other hosts; the hosts are this one."""

from benchmarks.workloads.remote.faults import BENCHMARKS as FAULTS
from benchmarks.workloads.remote.rates import BENCHMARKS as RATES
from benchmarks.workloads.remote.rows import BENCHMARKS as ROWS

BENCHMARKS = (*RATES, *FAULTS, *ROWS)
