"""An earlier path of `awaken.ext.tasks`: it says where background tasks are now."""

raise ImportError("there is no awaken.ext.background: use awaken.ext.tasks")
