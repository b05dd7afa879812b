"""The settings: their declarations (`schema`), what each place sets (`layers`), and the merged values (`effective`)."""
