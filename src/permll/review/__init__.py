"""Review: people look at suspect labels in the browser and decide. Nothing leaves their machine."""
