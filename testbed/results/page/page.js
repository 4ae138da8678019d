// index.html: what a page of text and pictures cannot do.
"use strict";
