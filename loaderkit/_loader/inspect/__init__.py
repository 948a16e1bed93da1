"""What a loader looks like from outside: described, followed record by record, debugged, measured, explained.

It is imported when one of these is asked for, and changes no stream: what it runs, it runs on copies of a loader.
"""
