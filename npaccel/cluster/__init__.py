"""Where the parts of an array are on several machines: maps, plans between them, their execution.

Knows: index spaces and how they are split (maps.py), the arrays that carry a map (carrying.py), how
requests over views of buffers are cut at a map's boundaries (placing.py, planner.py, folding.py),
nodes as separate memories that execute such a plan (nodes.py) in this process (simulation.py) or
in others (dask_workers.py), and what it costs (costs.py). It takes requests from
runtime/programs/trace.py and meanings from ir/.
Must not know: dispatch, observe, NumPy's functions by name, backends' code; and no library that
starts processes, but in the one file that is named after it.
"""

from npaccel.cluster.carrying import agile as agile
from npaccel.cluster.carrying import map_of as map_of
from npaccel.cluster.client import Cluster as Cluster
from npaccel.cluster.maps import Map as Map
