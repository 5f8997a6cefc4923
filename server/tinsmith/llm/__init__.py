"""Models: one file per dialect; protocol mechanics and nothing else."""
