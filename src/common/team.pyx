"""A team of threads for many kernel calls, one after another: each call leads, and threads of the caller help
it. No thread is woken.
"""

from cpython.exc cimport PyErr_CheckSignals

from craftc._kernels._common cimport check_threads
from craftc._kernels._team cimport team_end, team_help_some, team_join, team_lead, team_rest, team_start

cdef extern from "common/_team.h" nogil:
    void team_leave(const team *) noexcept


cdef class Team:
    """Threads that help the calls that are given this team.

    Parameters
    ----------
    n_threads : int
        The leader and its helpers, at most.
    """

    def __init__(self, int n_threads):
        check_threads(n_threads)
        self.n_threads = n_threads
        team_start(&self.shared)

    cdef team *lead(self) except NULL:
        """For a call, before its steps; `rest` comes after them."""
        if not team_lead(&self.shared):
            raise RuntimeError("a team leads one kernel call at a time")
        return &self.shared

    cdef void rest(self) noexcept nogil:
        team_rest(&self.shared)

    def leave(self):
        """The calling thread goes to another processor if it is on that where the team was made."""
        team_leave(&self.shared)

    def help(self):
        """Help whichever call leads, until `end`; not at all if there are enough helpers."""
        cdef int thread = team_join(&self.shared, self.n_threads)
        cdef bint over = thread == 0
        while not over:
            with nogil:
                over = team_help_some(&self.shared, thread)
            PyErr_CheckSignals()

    def end(self):
        """Helpers return; calls that come later have none."""
        team_end(&self.shared)
