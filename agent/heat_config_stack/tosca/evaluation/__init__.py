"""The functions of a service evaluated: values, or what only a run can know.

In: the model of a service, and inputs. Out: values, marked where they are secret.
It makes no resource, and reads no files but those of the service.
"""
