// Shows the OpenAPI document of this server with Swagger UI.
"use strict";

const documentUrl = new URL("../../openapi.json", document.currentScript.src).href;

/** Leaves the text fields of forms empty; by default Swagger UI fills in values, such as an album that is missing. */
function withEmptyForms(openapi) {
  for (const item of Object.values(openapi.paths)) {
    for (const operation of Object.values(item)) {
      const form = operation.requestBody?.content["multipart/form-data"]?.schema;
      const name = form?.$ref?.split("/").at(-1);
      const schema = name ? openapi.components.schemas[name] : form;
      for (const property of Object.values(schema?.properties ?? {})) {
        property.examples = [property.type === "array" ? [] : ""];
      }
    }
  }
  return openapi;
}

async function show() {
  const response = await fetch(documentUrl);
  SwaggerUIBundle({
    spec: withEmptyForms(await response.json()),
    dom_id: "#docs",
    deepLinking: true,
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    showCommonExtensions: true,
    tryItOutEnabled: true,
    validatorUrl: null, // by default a website of others checks the document
  });
}

show();
