"""Serve an archive as a source, which real replicas log in to and follow (`binlake serve`).

    settings   the user's options, as one value
    library    which files there are, and waking up when they grow
    server     the listening socket and one thread per connection
    channel    packets on one socket, with deadlines and limits
    login      greeting, TLS, the two password plugins
    session    commands until the connection ends
    queries    the statements that replicas and their tools send; `variables` their answers
    dump       the stream of events: `start` where it begins, `selection` what is left out,
               `pages` the windows of files that grow, `made_up` the events that no file holds

A replica that reads slowly waits in its own thread with at most a few windows in memory.
"""
