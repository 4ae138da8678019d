class RegisterOperationErrorCode:
    INVALID_REGISTER_NAME = 1
    INVALID_INDEX = 2
    ERROR = 3
    _VALUES_TO_NAMES = {1: "INVALID_REGISTER_NAME", 2: "INVALID_INDEX", 3: "ERROR"}


class InvalidRegisterOperation(Exception):
    def __init__(self, code=None):
        super().__init__(code)
        self.code = code
