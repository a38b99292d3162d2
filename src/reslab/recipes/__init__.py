"""The named recipes, one YAML file each."""
