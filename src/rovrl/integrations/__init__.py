"""RoVR-GSPO inside training frameworks: thin layers that hold no mathematics."""
