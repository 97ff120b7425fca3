"""Pictures of the stage without a browser: made of the records that the stage plays, painted as SVG, PNG or GIF."""
