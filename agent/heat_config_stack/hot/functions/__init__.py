"""The functions of HOT, each in the forms that its versions have.

In: the arguments of a function as parsed. Out: its value, or a value that is known later, or a mistake with its place.
They know neither the text of the template nor the stack, except through the scope that they are given.
"""
