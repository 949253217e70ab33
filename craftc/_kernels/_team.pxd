"""Threads that share out the items of many steps."""

cdef extern from "common/_team.h" nogil:
    ctypedef struct team:
        pass

    ctypedef void (*team_job)(void *, int, int) noexcept
    void team_start(team *) noexcept
    void team_step(team *, team_job, void *, int) noexcept
    void team_end(team *) noexcept
    void team_help(team *, int) noexcept
    int team_help_some(team *, int) noexcept
    int team_join(team *, int) noexcept
    int team_lead(team *) noexcept
    void team_rest(team *) noexcept
