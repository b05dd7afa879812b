"""The settings: their declarations (`schema`), what each place sets (`layers`), and the merged values (`effective`).

In: files, variables, options and metadata. Out: the value and the place of each setting, and mistakes.
It knows neither what a setting is used for nor who asks for it.
"""
