from imagehost_core import Size, parse_transform, plan

photo = Size(4032, 3024)

for query in ("w=300", "w=200&h=200", "w=200&h=200&fit=contain", "w=200&h=200&fit=inside"):
    steps = plan(photo, parse_transform(query))
    print(f"{query}: scale to {steps.resize}, output {steps.output}")

# w=300: scale to 300×225, output 300×225
# w=200&h=200: scale to 267×200, output 200×200
# w=200&h=200&fit=contain: scale to 200×150, output 200×200
# w=200&h=200&fit=inside: scale to 200×150, output 200×150
