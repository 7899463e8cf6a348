"""Caption CAPEval's images, judge the captions, count coverage and precision."""
