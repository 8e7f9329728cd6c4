"""What rules may ask: names, values, loops, modes and the program, worked out once by abstract execution.

`program.analyse` runs a program's entry file abstractly: it follows calls into the project's functions, keeps an
abstract value for every expression and writes down what happens (a module called, a tensor read by the host, an
optimizer stepped) as events, each in its calling context. Rules ask the events; they never look at variable names.
"""
