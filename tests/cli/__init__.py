"""The program `headrace`: in this process where that is enough, else as a real one."""
