export made=$TOSCA_NODE-made count=5 address=1.2.3.4 linked=L src=S
