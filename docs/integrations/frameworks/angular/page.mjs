import "@angular/compiler";
import { readFileSync, writeFileSync } from "node:fs";
import { NgOptimizedImage } from "@angular/common";
import { Component, provideZonelessChangeDetection } from "@angular/core";
import { bootstrapApplication } from "@angular/platform-browser";
import { provideServerRendering, renderApplication } from "@angular/platform-server";
import { thumbHashToDataURL } from "thumbhash";
import { provideImagehost } from "./imagehost.mjs";

const read = (name) => JSON.parse(readFileSync(name, "utf8"));
const image = read("image.json");

class Page {
  image = image;
  signed = read("signed.json");
  placeholder = thumbHashToDataURL(Buffer.from(image.placeholder, "base64"));
}
Component({
  selector: "app-page",
  imports: [NgOptimizedImage],
  template: `
    <img [ngSrc]="image.url" [width]="image.width" [height]="image.height" [alt]="image.description"
      sizes="50vw" [placeholder]="placeholder" priority>
    <img [ngSrc]="signed.url" width="400" height="600" alt="Private" disableOptimizedSrcset>
  `,
})(Page);

const providers = [provideImagehost(), provideServerRendering(), provideZonelessChangeDetection()];
const bootstrap = (context) => bootstrapApplication(Page, { providers }, context);
const document = "<!doctype html><html><head></head><body><app-page></app-page></body></html>";
writeFileSync("index.html", await renderApplication(bootstrap, { document, url: "/" }));
