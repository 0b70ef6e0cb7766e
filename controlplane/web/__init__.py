"""The web server: connections and bodies before a request reaches Django."""
