# Telemark in a container: docker build -t telemark . && docker run --rm -it --privileged telemark
# Namespaces need --privileged. More in docs/how-to/run-experiments.md.
FROM debian:12
COPY . /telemark
WORKDIR /telemark
RUN ./setup.sh && rm -rf /var/lib/apt/lists/*
CMD ["bash"]
