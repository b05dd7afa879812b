"""The functions of HOT, each in the forms that its versions have."""
