"""What runs jobs: a reader, an executor, a settler, and those who keep house."""
