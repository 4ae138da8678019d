"""What XDP experiments share: frames, places where they arrive, contenders in turns."""
