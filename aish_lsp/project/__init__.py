"""The picture of a project: its files, their tree, its instruction file and its tasks."""
